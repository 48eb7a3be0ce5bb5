// Package dircopy puts whole copies of directories of a workspace onto a stage, by descriptors: an overlay cannot rename
// a directory that lies below it, and can one that lies on the stage. Copies are bounded, and nothing is followed.
//
// It mounts nothing and takes no other user's rights: who calls it does.
package dircopy
