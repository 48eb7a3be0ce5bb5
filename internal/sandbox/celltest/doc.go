// Package celltest is the common part of the tests of tiers with cells: the cell under test, built once; an
// ordinary user to run as, and the test binary started again as that user; directories that everybody can pass
// through; a run whose output is read from a file. Package sandboxtest defines what a tier must do.
//
// It is for tests only, which package layers checks.
package celltest
