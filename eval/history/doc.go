// Package history keeps figures of commits and finds the steps in them.
//
// Machines differ, and one machine is slower while others use it. So a [Line] has figures that are exact: what the
// verifier processes, lengths, counts, bytes. [Steps] compares them between lines of any days, if the same kernel and
// compilers made them. Rates are kept only as ratios to something that was measured in the same second, and a step in
// them is named by [Judge] after the programs of both commits have run in turns. CI fails if a figure that users pay
// for is 5 % worse than the last line; limits on rates would fail by load. So a commit that makes a program larger
// adds a line. Allocations depend on the load and are not kept.
package history
