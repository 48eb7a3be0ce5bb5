// Package preimage remembers what calls replaced or removed in workspaces, so that it can be put back.
//
// Words: the store is a directory of the daemon's alone, with a directory for each call; in that, the manifest says what
// the call changed and where of it what was there lies.
//
// Once a call is over, what was there is sealed by a Sealer: the whole directory of it as one stream of bytes, with holes
// as holes. What may not be read, sockets and devices are left out of that: nobody could put them back.
//
// Promises. What is remembered is there under its call's name whole, or not at all. Content is given only where it has the
// digest that was written down. Before anything goes, what is sealed of it is durable; what is opened again, to be put
// back, goes with that, or at the next start. A manifest is read within bounds, and none of its paths leads out.
//
// What it does not do. It puts nothing back and decides nothing about how long something is kept: a Space says what there
// is room for.
package preimage
