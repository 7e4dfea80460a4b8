// Package plot draws figures, as pictures for people (SVG, PNG).
//
// A [Figure] shows what changes with time, in panels that share the scale of their vertical axis; it is written as numbers
// (CSV), too. A [Chart] shows what was measured at some places of an axis, several times each: lines with bars of error, or
// bars beside or upon each other. Its series are drawn by their [Role], so that the same system looks the same in every
// chart, also in print without colours.
package plot
