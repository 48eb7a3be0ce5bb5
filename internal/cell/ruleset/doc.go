// Package ruleset makes Landlock's rulesets: in a cell, for what it starts, and in the daemon, which makes ahead what
// every run of a cell needs.
package ruleset
