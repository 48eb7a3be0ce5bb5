// Package moved notices that a directory or a symbolic link on the way to a file was taken away while somebody
// relied on it, also when it was put back: the file itself keeps its number and its times then.
//
// Words: a way is the directories from a root to a file, and the file itself where it is a link.
//
// Promises: what is moved, removed or exchanged of a way after Add is told by Moved, and writing in the directories
// is not. Where the kernel has no watch to give, or lost what one saw, every change of a directory of the way
// counts as a move of it: more is told then, and never less.
//
// What it does not do: what is above a root is not watched, nor what comes to be where nothing was, nor directories
// that a link on the way leads through. Moves that another machine makes in a network file system are not seen.
package moved
