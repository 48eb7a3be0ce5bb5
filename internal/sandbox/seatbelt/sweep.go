package seatbelt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// sweepFactor is how many times more a run may leave than it was allowed to start with.
const sweepFactor = 10

// sweep finds sealed paths that are not among marks, when nothing of the run lives any more, and
// moves them to .palyra/quarantine/<call> in the workspace under neutral names; an index there has
// their paths. It returns the paths, and with seal.ChangedPrefix those that existed before and
// changed, which the run could not have done. With an error some may be left.
func sweep(ctx context.Context, workspace string, names *seal.Matcher, marks []mark, call palyra.CallID) ([]string, error) {
	now, err := look(ctx, workspace, names, maxEntries*sweepFactor)
	if err != nil {
		return nil, err
	}
	before := map[string]mark{}
	for _, m := range marks {
		before[m.Path] = m
	}
	var out []string
	var made []mark
	for _, m := range now {
		was, ok := before[m.Path]
		switch {
		case !ok && m.Path == whole: // without this it is no repository any more
			made = append(made, heads(workspace)...)
		case !ok && !belowMoved(made, m.Path):
			made = append(made, m)
		case ok && !m.Keep && was != m:
			out = append(out, seal.ChangedPrefix+m.Path)
		}
	}
	if len(made) > 0 {
		if err := quarantine(workspace, made, call); err != nil {
			return nil, err
		}
		if err := checkNoneLeft(ctx, workspace, names, before); err != nil {
			return nil, err
		}
	}
	for _, m := range made {
		out = append(out, m.origin())
	}
	return out, nil
}

// checkNoneLeft looks once more for sealed paths.
func checkNoneLeft(ctx context.Context, workspace string, names *seal.Matcher, before map[string]mark) error {
	now, err := look(ctx, workspace, names, maxEntries*sweepFactor)
	if err != nil {
		return err
	}
	for _, m := range now {
		top, _, _ := strings.Cut(quarantineDir, "/")
		if _, ok := before[m.Path]; !ok && m.Path != top {
			return palyra.Errorf(palyra.Internal, palyra.ReasonSealDenied, "a sealed path that the run made is still there: %q",
				palyra.Clip(m.Path, 256)).
				WithRemedy("look at it before you use the workspace")
		}
	}
	return nil
}

// belowMoved reports whether a path lies below one that will be moved as a whole.
func belowMoved(moved []mark, p string) bool {
	return slices.ContainsFunc(moved, func(m mark) bool { return subpath.Below(m.Path, p) })
}

// heads returns the files by which git takes the workspace itself for a repository.
func heads(workspace string) []mark {
	entries, err := os.ReadDir(workspace)
	if err != nil {
		return nil // the look after the sweep finds it
	}
	var out []mark
	for _, e := range entries {
		if seal.Fold(e.Name()) == "head" {
			out = append(out, mark{Path: e.Name(), Mode: uint32(e.Type())})
		}
	}
	return out
}

// item is a line of the index.
type item struct {
	Item string `json:"item"`
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
}

// quarantine moves paths of a workspace away.
func quarantine(workspace string, made []mark, call palyra.CallID) (err error) {
	defer func() {
		if err != nil {
			err = palyra.Errorf(palyra.Internal, palyra.ReasonSealDenied, "sealed paths that the run made could not be moved away").
				WithRemedy("look for them before you use the workspace").WithCause(fmt.Errorf("seatbelt: quarantine: %w", err))
		}
	}()
	if !plainID(string(call)) {
		return errors.New("the call's id cannot name a directory")
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	at := path.Join(quarantineDir, string(call))
	if err := clearWay(root, made, string(call)); err != nil {
		return err
	}
	if err := root.MkdirAll(at, 0o700); err != nil {
		return err
	}
	var index []byte
	for i, m := range made {
		name := strconv.Itoa(i + 1)
		if err := root.Rename(m.Path, path.Join(at, name)); err != nil {
			return err
		}
		line, err := json.Marshal(item{name, made[i].origin(), m.Mode})
		if err != nil {
			return err
		}
		index = append(append(index, line...), '\n')
	}
	return root.WriteFile(path.Join(at, "index.jsonl"), index, 0o600)
}

// clearWay moves aside what the run itself made with the name .palyra, in any spelling, so that the
// quarantine is not in it. An earlier .palyra that is no directory is an error.
func clearWay(root *os.Root, made []mark, call string) error {
	top, _, _ := strings.Cut(quarantineDir, "/")
	for i, m := range made {
		if seal.Fold(m.Path) != top {
			continue
		}
		aside := m.Path + "-" + call
		if err := root.Rename(m.Path, aside); err != nil {
			return err
		}
		made[i].Path, made[i].from = aside, m.Path
	}
	for _, d := range []string{top, quarantineDir} {
		fi, err := root.Lstat(d)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && !fi.IsDir() {
			return fmt.Errorf("%s is not a directory", d)
		}
	}
	return nil
}

// plainID reports whether an id can be the name of a file.
func plainID(s string) bool {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
	return s != "" && len(s) <= 64 && strings.Trim(s, alphabet) == ""
}
