// Package plot draws figures of things that change with time, as pictures for people (SVG, PNG) and as numbers (CSV).
//
// A [Figure] is made of [Panel]s that share the scale of their vertical axis, so that they can be compared.
package plot
