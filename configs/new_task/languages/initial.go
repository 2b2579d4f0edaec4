// The seed program. Only what stands in the evolve block may change; a model's edits may put anything there.
//
// It reads one instance a line and writes one answer a line. What it prints to os.Stderr is shown if it fails.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
)

// EVOLVE-BLOCK-START
var start = "given"
var improve = "none"
var tries = 200
var heat = 0.0
var draw = 1

type point [2]float64

// The generator of Park and Miller: numbers between 0 and 1.
type luck struct{ state int64 }

func (l *luck) next() float64 {
	l.state = l.state * 16807 % 2147483647
	return float64(l.state-1) / 2147483646.0
}

func (l *luck) below(n int) int { return int(l.next() * float64(n)) }

func distance(a, b point) float64 {
	dx, dy := a[0]-b[0], a[1]-b[1]
	return math.Sqrt(dx*dx + dy*dy)
}

func length(points []point, order []int) float64 {
	sum := 0.0
	for i, stop := range order {
		sum += distance(points[stop], points[order[(i+1)%len(order)]])
	}
	return sum
}

func begin(points []point) []int {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	if start == "sweep" {
		angle := func(i int) float64 { return math.Atan2(points[i][1]-0.5, points[i][0]-0.5) }
		sort.Slice(order, func(i, j int) bool { return angle(order[i]) < angle(order[j]) })
	} else if start == "nearest" {
		for i := 1; i < len(order); i++ {
			near := i
			for j := i; j < len(order); j++ {
				if distance(points[order[j]], points[order[i-1]]) < distance(points[order[near]], points[order[i-1]]) {
					near = j
				}
			}
			order[i], order[near] = order[near], order[i]
		}
	}
	return order
}

func changed(order []int, l *luck) []int {
	a, b := l.below(len(order)), l.below(len(order))
	if a > b {
		a, b = b, a
	}
	other := append([]int(nil), order...)
	if improve == "swap" || (improve == "both" && l.next() < 0.5) {
		other[a], other[b] = other[b], other[a]
		return other
	}
	for ; a < b; a, b = a+1, b-1 {
		other[a], other[b] = other[b], other[a]
	}
	return other
}

func tour(points []point) []int {
	order := begin(points)
	if improve == "none" {
		return order
	}
	l := &luck{int64(7919 * draw)}
	best, bestLength := order, length(points, order)
	now := bestLength
	for step := 0; step < tries; step++ {
		other := changed(order, l)
		found := length(points, other)
		if found < now+heat*(1.0-float64(step)/float64(tries))*l.next() {
			order, now = other, found
			if now < bestLength {
				best, bestLength = order, now
			}
		}
	}
	return best
}

// EVOLVE-BLOCK-END

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var instance struct{ Points []point }
		if err := json.Unmarshal(line, &instance); err != nil {
			panic(err)
		}
		answer, _ := json.Marshal(tour(instance.Points))
		fmt.Println(string(answer)) // not buffered: the next instance comes after this answer
	}
}
