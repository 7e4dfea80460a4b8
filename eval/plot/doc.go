// Package plot draws figures as SVG and PNG.
//
// A [Figure] shows quantities over time, in panels that share the scale of their vertical axis; it
// is written as CSV, too. A [Chart] shows measurements at some places of an axis, several for each
// place: lines with error bars, or bars beside or upon each other. A series is drawn by its
// [Role], so that the same system looks the same in every chart, also in print without colours.
package plot
