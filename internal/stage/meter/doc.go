// Package meter adds up what is in a tree that somebody else goes on changing: names and bytes, within bounds.
package meter
