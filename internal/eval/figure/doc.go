// Package figure makes figures of measurements: a [Spec] says what is measured, [Run] measures it in rounds in which all
// that is compared takes turns, and writes every sample to a file at once ([Journal]), so that a run that is interrupted goes
// on where it was. Everything shown is made from those files alone: pictures, tables of numbers, the report, the summary.
package figure
