// Package tui is the terminal UI: one inbox over all agents and sessions, with the effect before the command.
//
// Words: a section is one of its lists; the pane shows what one row of it is about; a field takes a typed word.
//
// Promises. Nothing but a whole word, typed key by key into a field that has stood for a moment and followed by Enter,
// decides anything: no single key, no default, no key typed ahead, no pasted text. A word is about the question that the
// pane shows, by the digest that was shown, and about no other that takes its place. A passphrase is asked for each
// signature, and forgotten. Whatever comes from outside is shown as the commands show it. A daemon that goes away is
// waited for, and nothing that was typed meanwhile counts.
//
// It has nothing that the client does not offer: panes are what the commands of the same name print.
package tui
