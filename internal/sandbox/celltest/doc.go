// Package celltest is what the tests of tiers with cells share: the cell under
// test, built once; somebody ordinary to run as, and the test binary started again
// as that; directories that everybody can pass through; a run whose output is read
// from a file. What a tier must do is defined by package sandboxtest.
//
// It is for tests only, which package layers sees to.
package celltest
