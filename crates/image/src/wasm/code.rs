//! Function bodies, as far as they show where data is.

use wasmparser::{BinaryReader, FunctionBody, Operator};

/// An instruction that the lenses use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// A constant is pushed.
    Constant(i64),
    /// A function is called.
    Call(u32),
    /// A local is pushed.
    LocalGet(u32),
    /// A local is set.
    LocalSet(u32),
    /// A local is set, and stays on the stack.
    LocalTee(u32),
    /// A global is pushed.
    GlobalGet(u32),
    /// A word of memory is read, at an offset from the address.
    Load {
        /// The offset.
        offset: u64,
    },
    /// Memory is written, at an offset from the address.
    Store {
        /// The offset.
        offset: u64,
    },
    /// Any other instruction.
    Other,
}

impl Instruction {
    fn of(operator: &Operator<'_>) -> Self {
        match *operator {
            Operator::I32Const { value } => Self::Constant(value.into()),
            Operator::I64Const { value } => Self::Constant(value),
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => Self::Call(function_index),
            Operator::LocalGet { local_index } => Self::LocalGet(local_index),
            Operator::LocalSet { local_index } => Self::LocalSet(local_index),
            Operator::LocalTee { local_index } => Self::LocalTee(local_index),
            Operator::I32Load { memarg } | Operator::I64Load { memarg } => Self::Load { offset: memarg.offset },
            Operator::GlobalGet { global_index } => Self::GlobalGet(global_index),
            Operator::I32Store { memarg }
            | Operator::I64Store { memarg }
            | Operator::F32Store { memarg }
            | Operator::F64Store { memarg }
            | Operator::I32Store8 { memarg }
            | Operator::I32Store16 { memarg }
            | Operator::I64Store8 { memarg }
            | Operator::I64Store16 { memarg }
            | Operator::I64Store32 { memarg } => Self::Store { offset: memarg.offset },
            _ => Self::Other,
        }
    }
}

/// The instructions of a body, up to the first that cannot be read; `None` if its locals cannot be read.
pub fn instructions(body: &[u8], offset: usize) -> Option<impl Iterator<Item = Instruction> + '_> {
    let operators = FunctionBody::new(BinaryReader::new(body, offset)).get_operators_reader().ok()?;
    Some(operators.into_iter().map_while(Result::ok).map(|operator| Instruction::of(&operator)))
}

/// Whether a body has an instruction that changes a table.
pub fn changes_table(body: &[u8], offset: usize) -> wasmparser::Result<bool> {
    for operator in FunctionBody::new(BinaryReader::new(body, offset)).get_operators_reader()? {
        let changes = matches!(
            operator?,
            Operator::TableSet { .. }
                | Operator::TableGrow { .. }
                | Operator::TableFill { .. }
                | Operator::TableCopy { .. }
                | Operator::TableInit { .. }
        );
        if changes {
            return Ok(true);
        }
    }
    Ok(false)
}
