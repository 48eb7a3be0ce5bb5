// Package repofind looks through a directory that strangers write to for
// repositories that were made or changed there since a moment: what a host's git,
// Mercurial or Jujutsu would take its settings from, and so programs to run.
//
// A search is bounded and never complete: directories called .git come first, then those that changed, then the
// others from the top down, until so many entries were looked at; that something which changed was left out is
// told. A change is known by the time that the kernel gives to it, which nobody can set. Nothing is followed,
// opened for its content or changed.
package repofind
