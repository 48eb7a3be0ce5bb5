// Package beneath works on files below an open directory, by descriptors: no link is followed, no other file system
// entered and nothing above reached, whatever somebody does to the tree meanwhile.
//
// It judges nothing, and takes no other user's rights: who calls it does.
package beneath
