// Package agentstage keeps the stages of whole agents: what an agent and all its calls wrote, which waits for a person
// to keep it or drop it, in parts or whole.
//
// Words: the stage of an agent is a stage that many runs write to, one after the other and at once, and that outlives
// them. A part is some of what is on it, as a stage of its own, by which it is kept as the changes of any run are. To
// take is to remove from the stage what was kept, or is not wanted.
//
// Promises. What agents left is hostile: it is read with the rights of the workspace's owner, by descriptor, without
// following a link. A part stands by itself: directories that lead to it are in it, and what was replaced or removed as
// a whole is a part as a whole or not at all. Nothing is taken before it was kept or dropped on record, and what is left
// means the same as before.
//
// What it does not do. It mounts nothing, keeps nothing in a workspace, and judges nothing. Content that an agent wrote
// is flushed when the agent has ended: when the machine stops before, some of it may be lost.
package agentstage
