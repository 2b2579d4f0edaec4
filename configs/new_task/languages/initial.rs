// The seed program. Only what stands in the evolve block may change; a model's edits may put anything there.
//
// It reads one instance a line and writes one answer a line. What it prints with eprintln! is shown if it fails.
#![allow(non_upper_case_globals)]

use std::io::{self, BufRead, Write};

// EVOLVE-BLOCK-START
const start: &str = "given";
const improve: &str = "none";
const tries: usize = 200;
const heat: f64 = 0.0;
const draw: i64 = 1;

type Point = (f64, f64);

/// The generator of Park and Miller: numbers between 0 and 1.
struct Luck {
    state: i64,
}

impl Luck {
    fn next(&mut self) -> f64 {
        self.state = self.state * 16807 % 2147483647;
        (self.state - 1) as f64 / 2147483646.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() * n as f64) as usize
    }
}

fn distance(a: Point, b: Point) -> f64 {
    let (dx, dy) = (a.0 - b.0, a.1 - b.1);
    (dx * dx + dy * dy).sqrt()
}

fn length(points: &[Point], order: &[usize]) -> f64 {
    let n = order.len();
    (0..n).fold(0.0, |sum, i| sum + distance(points[order[i]], points[order[(i + 1) % n]]))
}

fn begin(points: &[Point]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    if start == "sweep" {
        let angle = |i: usize| (points[i].1 - 0.5).atan2(points[i].0 - 0.5);
        order.sort_by(|&a, &b| angle(a).total_cmp(&angle(b)));
    } else if start == "nearest" {
        for i in 1..order.len() {
            let last = points[order[i - 1]];
            let mut near = i;
            for j in i..order.len() {
                if distance(points[order[j]], last) < distance(points[order[near]], last) {
                    near = j;
                }
            }
            order.swap(i, near);
        }
    }
    order
}

fn changed(order: &[usize], luck: &mut Luck) -> Vec<usize> {
    let (mut a, mut b) = (luck.below(order.len()), luck.below(order.len()));
    if a > b {
        std::mem::swap(&mut a, &mut b);
    }
    let mut other = order.to_vec();
    if improve == "swap" || (improve == "both" && luck.next() < 0.5) {
        other.swap(a, b);
    } else {
        other[a..=b].reverse();
    }
    other
}

fn tour(points: &[Point]) -> Vec<usize> {
    let mut order = begin(points);
    if improve == "none" {
        return order;
    }
    let mut luck = Luck { state: 7919 * draw };
    let (mut best, mut best_length) = (order.clone(), length(points, &order));
    let mut now = best_length;
    for step in 0..tries {
        let other = changed(&order, &mut luck);
        let found = length(points, &other);
        if found < now + heat * (1.0 - step as f64 / tries as f64) * luck.next() {
            order = other;
            now = found;
            if now < best_length {
                best = order.clone();
                best_length = now;
            }
        }
    }
    best
}

// EVOLVE-BLOCK-END

/// The points of {"points": [[x, y], ...]}: all numbers of the line, in pairs.
fn points_in(line: &str) -> Vec<Point> {
    let numbers: Vec<f64> = line
        .split(|c: char| "{}[]:, \"".contains(c))
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn main() {
    for line in io::stdin().lock().lines() {
        let answer: Vec<String> = tour(&points_in(&line.unwrap())).iter().map(usize::to_string).collect();
        println!("[{}]", answer.join(","));
        io::stdout().flush().unwrap(); // the next instance comes after this answer
    }
}
