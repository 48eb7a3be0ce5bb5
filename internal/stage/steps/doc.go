// Package steps changes a workspace by a list of steps: what is there is taken away, files of a stage are put in its
// place, directories are made and get their modes.
//
// Promises. Every step can be done twice and taken back, so that whoever wrote the list down before the first can go on
// with it after a crash. Nothing is replaced that is not what the list says was there: files are exchanged or moved aside
// and then compared, and what is somebody else's goes back to its name, or gets another one beside it that is told.
//
// What it does not do. It decides nothing, writes no list and takes nobody's rights: who calls it does.
package steps
