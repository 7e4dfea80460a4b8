// Package papers lists the figures: results of the papers on NetChain and NetCRAQ and of the study
// of etcd, measured again here. One file defines one figure: its measurements, the source's
// values, and the comparison of both. Sentences about an outcome are chosen by the measurements;
// none is fixed in advance.
package papers
