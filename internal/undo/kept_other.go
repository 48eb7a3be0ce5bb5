//go:build !linux

package undo

import (
	"context"
	"errors"

	"palyra"
)

// Kept is where what calls replaced lies. On this system nothing is kept.
type Kept struct{}

var errNone = errors.New("undo: nothing is kept on this system")

func (*Kept) bound(*Undo) {}

func (*Kept) close() error { return nil }

func (*Kept) sealWith(Sealer, func(string, error)) {}

func (*Kept) seal(context.Context, string) error { return nil }

func (*Kept) unsealed() ([]string, error) { return nil, nil }

func (*Kept) names() ([]string, error) { return nil, nil }

func (*Kept) forget(string) error { return nil }

func (*Kept) head(string) (head, error) { return head{}, errNone }

func (*Kept) reversed(string) ([]palyra.Change, error) { return nil, errNone }

type reversal struct{}

func (*Kept) prepare(context.Context, string) (*reversal, error) { return nil, errNone }

func (*Kept) compare(context.Context, string) error { return errNone }

func (*reversal) drop() {}

func (*reversal) keep(context.Context, string) ([]palyra.Change, string, error) {
	return nil, "", errNone
}

func (*Kept) add(string, string, int64, int64, []Old, bool) (func(bool) error, error) {
	return nil, errNone
}

func (*Kept) size([]palyra.Change) int64 { return 0 }

func (*Kept) sweep() error { return nil }

func (*Kept) contents(context.Context, string, func(string) bool, int64, func(content) bool) error {
	return errNone
}

func (*Kept) heldContents(context.Context, string, func(string) bool, int64, func(content) bool) (bool, error) {
	return false, nil
}
