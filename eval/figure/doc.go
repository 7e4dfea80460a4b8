// Package figure makes figures of measurements. A [Spec] describes a figure. [Run] measures it in
// rounds, in which all series take turns, and writes every sample to a file at once ([Journal]),
// so that an interrupted run can continue. Pictures, tables, the report and the summary are made
// from these files alone.
package figure
