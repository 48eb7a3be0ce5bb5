// Package screen lays out what the command prints: tables that fit the terminal,
// descriptions, moments, spans and sizes, and the colours of Palyra's own words.
// Text from outside is always escaped on its way here.
package screen
