// Package archtest holds the rules of the house as tests: which package may import which, how long files and functions may
// be, that packages say what they are for, that tests don't sleep, that links in documents lead somewhere. ARCHITECTURE.md
// gives the reasons.
package archtest
