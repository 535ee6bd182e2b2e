// A program that keeps blocks whose types the stacks show, and one whose type they do not.
use std::hint::black_box;

struct Point {
    x: f64,
    y: f64,
    z: f64,
}

#[inline(never)]
fn load_points() -> Vec<Point> {
    let mut points = Vec::with_capacity(1000);
    for number in 0..1000 {
        points.push(Point { x: f64::from(number), y: 0.5, z: 1.5 });
    }
    black_box(points)
}

#[inline(never)]
fn load_names() -> Vec<String> {
    (0..100).map(|number| format!("a name of some length: {number}")).collect()
}

unsafe extern "C" {
    fn malloc(size: usize) -> *mut u8;
}

#[inline(never)]
fn parse_config() -> *mut u8 {
    black_box(unsafe { malloc(5000) })
}

fn main() {
    let points = load_points();
    println!("{}", points.iter().map(|point| point.x + point.y + point.z).sum::<f64>());
    std::mem::forget(black_box((points, load_names(), parse_config())));
}
