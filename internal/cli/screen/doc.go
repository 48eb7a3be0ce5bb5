// Package screen formats what the command prints: tables that fit the terminal, descriptions, times, durations and
// sizes, and the colours of Palyra's own words. Text from outside is always escaped here.
package screen
