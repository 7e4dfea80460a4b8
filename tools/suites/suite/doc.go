// Package suite compiles and runs tests of other projects. It changes copies of their sources, so that their tests
// start the product, and compares what comes of them.
package suite
