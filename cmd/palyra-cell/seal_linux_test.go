package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// repository is a workspace with things to seal, and its seals: some near, some
// deep, a link, and the directories on the way.
func repository(t *testing.T, w who) (dir string, r cell.Room) {
	t.Helper()
	dir = workspace(t, w, "file", "own/", "a/", "a/b/", "a/b/.git/", "a/b/.git/config",
		".git/", ".git/hooks/", ".git/hooks/pre-commit", ".git/config", ".git/index", ".envrc")
	link := filepath.Join(dir, ".exrc")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, w.uid, w.uid); err != nil {
		t.Fatal(err)
	}
	fixed := map[string]bool{".git/hooks": true, ".git/config": true, ".envrc": true, "a/b/.git/config": true, ".exrc": true}
	r = plain(dir)
	r.Seals = seals(t, dir, fixed, ".git", ".git/hooks", ".git/config", ".envrc", "a", "a/b", "a/b/.git", "a/b/.git/config", ".exrc")
	return dir, r
}

// attempts are ways to change what is sealed, one line each.
const attempts = `
echo x > .envrc
echo x >> .git/config
echo x > .git/hooks/pre-commit
echo x > .git/hooks/new
echo x > a/b/.git/config
chmod 777 .envrc
chmod 777 .git/hooks
touch -d 2001-01-01 .git/config
truncate -s 0 .git/config
rm -f .envrc
rm -f .git/hooks/pre-commit
rm -f .exrc
rmdir .git/hooks
rm -rf .git/hooks
mv .git/hooks elsewhere
mv .git/hooks/pre-commit .git/hooks/other
mv .git elsewhere
mv a elsewhere
mv a/b elsewhere
mv a/b a/c
mv a/b/.git a/b/git
mv -T own .git
mv -T own a
mv -T own .git/hooks
mv -f file .envrc
mv -f file .exrc
mv -f file a/b/.git/config
mv --exchange own .git
ln -f file .envrc
ln -sfT /tmp .git
ln -sfT other .exrc
ln .envrc twin
ln .git/config twin
ln .git/hooks/pre-commit own/twin
cp -f file .git/config
mkdir .git/hooks/sub
dd if=file of=.envrc conv=notrunc status=none
umount .envrc
umount -l .git
mount -o remount,rw,bind .git/config
mount --bind own .git/hooks
unshare -Urm true
`

// What is sealed stays as it is and where it is, whatever the program tries, and
// the rest of the workspace is the program's.
func TestSeals(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir, r := repository(t, w)
		before := picture(t, dir, r.Seals)
		h, _ := inhabit(t, w, r)
		var script strings.Builder
		for _, line := range lines(attempts) {
			script.WriteString("if { " + line + "; } 2>/dev/null; then echo 'WORKED: " + line + "'; fi\n")
		}
		script.WriteString("echo more >> .git/index && echo new > .git/HEAD && mv .git/HEAD .git/MAIN && echo new > a/b/new && mkdir " +
			"own/sub && mv file own/file && rm a/b/new && echo could\n")
		s := shell(script.String())
		s.Cwd, s.Filter = dir, refuseCall(unix.SYS_UNSHARE)
		out, _ := h.runs(s)
		if out != "could\n" {
			t.Errorf("%s", out)
		}
		if after := picture(t, dir, r.Seals); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if _, err := os.Stat(filepath.Join(dir, "own/file")); err != nil {
			t.Error(err)
		}
	})
}

// picture is all that can be seen of what is sealed.
func picture(t *testing.T, dir string, sealed []cell.Seal) string {
	t.Helper()
	var b strings.Builder
	for _, s := range sealed {
		info, err := os.Lstat(filepath.Join(dir, s.Path))
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(s.Path + " " + info.Mode().String())
		if s.ReadOnly {
			b.WriteString(" " + info.ModTime().String())
		}
		if info.Mode().IsRegular() {
			content, _ := os.ReadFile(filepath.Join(dir, s.Path))
			b.Write(content)
		}
		if s.ReadOnly && info.IsDir() {
			entries, _ := os.ReadDir(filepath.Join(dir, s.Path))
			for _, e := range entries {
				content, _ := os.ReadFile(filepath.Join(dir, s.Path, e.Name()))
				b.WriteString(" " + e.Name() + "=" + string(content))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A room is built for what its daemon saw. Whatever is something else by then is
// said to be so, and nothing is mounted over it.
func TestChangedSeals(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"another file":    func(dir string) error { return replace(filepath.Join(dir, ".envrc")) },
		"gone":            func(dir string) error { return os.Remove(filepath.Join(dir, ".envrc")) },
		"another kind":    func(dir string) error { return swap(filepath.Join(dir, ".git/hooks"), "file") },
		"a link in place": func(dir string) error { return swap(filepath.Join(dir, ".envrc"), "link") },
		"a link on the way": func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "a/b"), filepath.Join(dir, "own/b")); err != nil {
				return err
			}
			return os.Symlink("../own/b", filepath.Join(dir, "a/b"))
		},
		"a link out of the workspace": func(dir string) error {
			if err := os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, "own/git")); err != nil {
				return err
			}
			return os.Symlink("/etc", filepath.Join(dir, ".git"))
		},
		"a file on the way": func(dir string) error { return swap(filepath.Join(dir, "a/b"), "file") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, r := repository(t, me)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			_, first, _ := tryRoom(t, me, r)
			if first.Kind != cell.ReportFailed || first.Step != "seal" || unix.Errno(first.Errno) != unix.ESTALE || first.Text == "" {
				t.Errorf("%+v", first)
			}
		})
	}
}

func replace(path string) error {
	if err := os.WriteFile(path+".new", []byte("second"), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func swap(path, kind string) error {
	if err := os.Rename(path, path+".old"); err != nil {
		return err
	}
	if kind == "link" {
		return os.Symlink(filepath.Base(path)+".old", path)
	}
	return os.WriteFile(path, nil, 0o644)
}

// A workspace that is no mount of its own could be renamed with all its seals.
func TestSealsNeedAMount(t *testing.T) {
	dir, _ := repository(t, me)
	r := plain(filepath.Join(dir, "a"))
	r.Seals = seals(t, r.Workspace, nil, "b")
	h := &held{t: t}
	h.template, h.cmd, _ = enterRoom(t, me, dir)
	if first := h.build(r); first.Kind != cell.ReportFailed || first.Step != "seal" || unix.Errno(first.Errno) != unix.EINVAL {
		t.Errorf("%+v", first)
	}
}

// Thousands of seals are no reason to fail.
func TestManySeals(t *testing.T) {
	var paths []string
	fixed := map[string]bool{}
	for i := range 1000 {
		d := "d" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		paths = append(paths, d+"/", d+"/.envrc")
	}
	dir := workspace(t, me, paths...)
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(p, "/")
		fixed[p] = i%2 == 1
	}
	r := plain(dir)
	r.Seals = seals(t, dir, fixed, paths...)
	out := inRoom(t, me, r, `for f in */.envrc; do echo x > $f || echo no; done 2>/dev/null | sort | uniq -c`)
	if strings.Join(strings.Fields(out), " ") != "1000 no" {
		t.Errorf("%q", out)
	}
}
