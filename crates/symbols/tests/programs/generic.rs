mod cellar {
    pub struct Shelf<T>(pub Vec<T>);

    impl<T: Clone> Shelf<T> {
        #[inline(never)]
        pub fn stock_up(&mut self, item: &T) {
            self.extend_twice(item); // stock_up calls
        }

        #[inline(always)]
        fn extend_twice(&mut self, item: &T) {
            std::hint::black_box(&self.0); // extend_twice begins
            self.0.push(item.clone());
            self.0.push(item.clone());
        }
    }
}

#[inline(never)]
fn closure_caller(call: impl Fn(u64) -> u64) -> u64 {
    call(7)
}

fn main() {
    let mut shelf = cellar::Shelf(Vec::new());
    shelf.stock_up(&(std::env::args().count() as u64));
    let sum = closure_caller(|number| shelf.0.iter().sum::<u64>() + number);
    println!("{sum}");
}
