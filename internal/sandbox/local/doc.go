// Package local says what a run may see of the places where administrators and
// services keep their own things: /opt, /usr/local and whatever else lies in /usr
// that no package manager puts there.
//
// Toolchains live there, and so do the secrets of services. What tells them apart
// is owner and mode: a thing is shown if it is root's and everybody may read it (a
// directory also: nobody but root and its group may write to it). Everything else
// is hidden: what belongs to any other user, the run's own included, and what root
// keeps from others, since a run in root's workspace has root's uid; with it goes a
// directory whose names a group could swap meanwhile. The rule holds
// at every depth and is the same for every tier; a tier with mounts covers what is
// hidden, one without gives access to what is left (Rest).
package local
