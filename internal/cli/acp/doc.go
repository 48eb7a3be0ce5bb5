// Package acp is `palyra acp`: it stands between an editor and an agent that speak the Agent Client Protocol. What
// the agent asks of the editor goes through the gate: files, terminals, permissions.
//
// Words: the editor is ACP's client, the agent its agent; a session is one of ACP, opened by the editor, with the
// directories that it named. A view is a question shown in the editor; it decides nothing but a no.
//
// Promises: the agent reads, writes and runs by this connection only what the gate let pass, inside the directories
// of a session that the editor opened; a permission is given only for the gate's yes, once; what is not known is
// refused by name; a daemon that is away is a no. Messages, requests at once, sessions, terminals and what they
// print are bounded. The editor's cancel withdraws what waits and ends what runs.
//
// It does not see what the agent does by itself: its own shell, files and network are not gated by this.
package acp
