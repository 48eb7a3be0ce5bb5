// Package preimage remembers what calls replaced or removed in workspaces, so that it can be put back.
//
// Words: the store is a directory of the daemon's alone, with a directory for each call; in that, the manifest says what
// the call changed and where of it what was there lies.
//
// Promises. What is remembered is there under its call's name whole, or not at all. Content is given only where it has the
// digest that was written down. A manifest is read within bounds, and none of its paths leads out.
//
// What it does not do. It puts nothing back and decides nothing about how long something is kept: a Space says what there
// is room for.
package preimage
