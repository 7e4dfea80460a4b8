// Package archtest tests the rules of the repository: allowed imports, the length of files and functions, a doc comment for
// each package, no sleeps in tests, and valid links in documents. ARCHITECTURE.md gives the reasons.
package archtest
