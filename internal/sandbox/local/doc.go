// Package local decides what a run may see of the places where administrators and services keep their own
// things: /opt, /usr/local and whatever else lies in /usr that no package manager puts there.
//
// Toolchains live there, and so do the secrets of services. Owner and mode tell them apart: a file is shown if it
// is root's and everybody may read it (a directory also: nobody but root and its group may write to it). Everything
// else is hidden: files of any other user, the run's own included, and files that root keeps from others, because a
// run in root's workspace has root's uid; and a directory whose names a group could swap meanwhile. The rule holds
// at every depth and is the same for every tier; a tier with mounts covers what is hidden, one without gives access
// to the rest (Rest).
package local
