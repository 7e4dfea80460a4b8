// Package mutate measures whether the tests of a plane notice a wrong decision in its code.
//
// A mutant is the code with one condition that is always or never true. [Run] draws mutants of a [Subject] from a seed,
// and runs the subject's tests on each until one fails. A mutant that no test notices survives: it is equal to the
// code, or a test is missing.
package mutate
