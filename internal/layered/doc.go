// Package layered reads a directory as it would be with changes that lie in another one, by descriptors: what is changed
// is read there, and everything else where it is. Links are followed where they lead on in it; nothing leads out, and
// nothing that is no file is opened.
//
// It changes nothing, and takes no other user's rights: who calls it does.
package layered
