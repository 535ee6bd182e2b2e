//! What must hold for any bytes that arrive as a stream.

use crate::reseal;
use highwater_store::Follower;

/// Follows a stream at once and in pieces whose lengths the first byte chooses: nothing is lost, and both come to the same.
pub fn examine_stream(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let stream = if first % 2 == 0 { reseal(rest) } else { rest.to_vec() };
    let (at_once, whole) = follow(&stream, stream.len().max(1));
    let (in_pieces, same) = follow(&stream, usize::from(first / 2) + 1);
    let state = |follower: &Follower| format!("{:?}", follower.followed());
    assert_eq!(state(&at_once), state(&in_pieces));
    for (follower, given) in [(&at_once, whole), (&in_pieces, same)] {
        assert!(given.len() + follower.pending() <= stream.len());
        assert!(stream.starts_with(&given));
    }
}

fn follow(stream: &[u8], piece: usize) -> (Follower, Vec<u8>) {
    let (mut follower, mut given) = (Follower::default(), Vec::new());
    for piece in stream.chunks(piece) {
        let before = given.len() + follower.pending();
        let taken = follower.take(piece, &mut given);
        assert_eq!(given.len() + follower.pending(), before + piece.len());
        // A block that claims too much ends it, wherever it is cut.
        if taken.is_err() {
            break;
        }
    }
    (follower, given)
}
