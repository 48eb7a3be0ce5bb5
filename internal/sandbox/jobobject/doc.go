// Package jobobject is tier C on Windows: a native process with a restricted token, in a job object.
//
// Words: a plan is everything that decides what a run will be able to do, worked out before anything is touched:
// the token, the job's limits, the access that is given to directories, the command line and the environment block.
// A workspace has a SID of its own, made of its path and of the daemon's state: no account has it, so access for it
// is for the runs of that workspace alone. A run has one too, for its private directory.
//
// Promises: the token is restricted, so that a run opens only what both its user and one of a few SIDs may open:
// its workspace's and its own, and those by which everybody may read the system. It neither reads nor writes files
// that are only the user's, such as the profile directory. Its integrity is low: it writes nothing that is not
// labelled so, and touches no other process or window. It has no privilege but to pass through directories. The job
// bounds processes, committed memory and user time of the whole tree, keeps it from the clipboard, the desktop and
// other windows, lets nothing break away, and ends everything when the last handle on it is closed: with the daemon
// at the latest. Three handles are inherited and no more. Arguments arrive unchanged; batch files, which read them
// by other rules, are refused.
//
// What does not hold here, and is reported: a restricted token does not keep anybody from the network. The tier is
// refused until the operator has accepted that, and then attested as mode "none". Paths cannot be sealed, mounts
// and files of a profile cannot be shown, there are no terminals and no signals but the end; jobs that need one of
// these are refused. Size and number of files are not limited. Giving access to a workspace changes its access list
// and its integrity label, and stays: other low-integrity programs of the same user can then write there too.
//
// UNPROVEN HERE: no part of this has run on Windows. The plan, which is data, is tested; the rest
// has only been compiled.
package jobobject
