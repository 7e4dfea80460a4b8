// Package papers is the list of figures: what the papers on NetChain and NetCRAQ and the study of etcd report, measured again
// here. One file is one figure: what it measures, what the source says, and how both are compared. Sentences about an outcome
// are chosen by what was measured; none is fixed in advance.
package papers
