package workspace

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"palyra/internal/subpath"
)

// trees are never workspaces, nor is anything in them: they belong to the
// system, and a change there reaches far beyond any project.
var trees = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libexec", "/libx32", "/lost+found", "/proc", "/run", "/sbin", "/snap",
	"/sys", "/usr", "/var",
	"/Applications", "/Library", "/System", "/private/etc", "/private/var", // macOS
}

// open are the places inside trees where people do keep work.
var open = []string{"/var/tmp", "/var/folders", "/private/var/tmp", "/private/var/folders"}

// places are never workspaces themselves; directories in them may be. They hold
// what belongs to different people or programs.
var places = []string{
	"/", "/home", "/root", "/opt", "/srv", "/mnt", "/media", "/tmp", "/var/tmp", "/var/folders",
	"/Users", "/Volumes", "/private", "/private/tmp", "/private/var/tmp", "/private/var/folders", // macOS
}

// credentials are directories of a home whose only content is keys.
var credentials = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud",
	".local/share/keyrings",
}

// refuse says why dir, owned by owner, can never be a workspace.
func (r *Registry) refuse(g *glance, dir string, owner int64) error {
	of, homes := asked{dir, owner}, r.users.homesOf(r.euid, owner)
	if r.passed.still(of, homes) {
		return nil
	}
	err := r.rules(g, dir, homes)
	if err == nil {
		r.passed.keep(of, homes, g)
	}
	return err
}

func (r *Registry) rules(g *glance, dir string, homes []string) error {
	const remedy = "name a project directory of your own, for example %s"
	for _, own := range r.Own {
		if g.touches(dir, own) {
			return denied("%s contains or lies in Palyra's own directory %s", show(dir), own).
				WithRemedy("work in a directory apart from it, such as one project's")
		}
	}
	if up := filepath.Dir(dir); (up == "/home" || up == "/Users") && dir != up { // also where the system does not know the user
		return denied("%s is a home directory", show(dir)).WithRemedy(remedy, filepath.Join(dir, "project"))
	}
	for _, home := range homes {
		if g.within(dir, home) {
			return denied("%s is a home directory, or contains one", show(dir)).WithRemedy(remedy, filepath.Join(home, "project"))
		}
		for _, c := range credentials {
			if g.within(filepath.Join(home, c), dir) {
				return denied("%s holds credentials", show(dir)).WithRemedy(remedy, filepath.Join(home, "project"))
			}
		}
	}
	if system(dir) {
		return denied("%s is a system directory", show(dir)).WithRemedy(remedy, "~/project")
	}
	return nil
}

// system reports whether dir is one of the system's.
func system(dir string) bool {
	for _, p := range places {
		if dir == p {
			return true
		}
	}
	for _, o := range open {
		if subpath.Within(o, dir) {
			return false
		}
	}
	return slices.ContainsFunc(trees, func(t string) bool { return subpath.Within(t, dir) })
}

// homesOf returns the home directories of the users, as far as they are known.
func (d *directory) homesOf(uids ...int64) []string {
	var list []string
	add := func(dir string) {
		if filepath.IsAbs(dir) && filepath.Clean(dir) != "/" { // a system user's home may be anything
			list = append(list, filepath.Clean(dir))
		}
	}
	add(os.Getenv("HOME"))
	for _, uid := range uids {
		add(d.homeOf(uid))
	}
	return list
}

// directory remembers the homes of users, until the system's list of them changes. Users whom the system knows by
// other means are looked up each time.
type directory struct {
	mu    sync.Mutex
	list  os.FileInfo // as it was when the homes were read
	homes map[int64]string
}

// passwd is the system's own list of users.
const passwd = "/etc/passwd"

// homeOf returns the home of a user; empty: there is none.
func (d *directory) homeOf(uid int64) string {
	now, err := os.Stat(passwd)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil || d.list == nil || !os.SameFile(now, d.list) || now.Size() != d.list.Size() || !now.ModTime().Equal(d.list.ModTime()) {
		d.homes, d.list = map[int64]string{}, now
	}
	if home, ok := d.homes[uid]; ok {
		return home
	}
	u, found := user.LookupId(strconv.FormatInt(uid, 10))
	if found != nil {
		return ""
	}
	if err == nil {
		d.homes[uid] = u.HomeDir
	}
	return u.HomeDir
}

// glance is one look at the file system: every name is asked about once,
// because the same few directories lie above everything that is compared.
type glance struct {
	sights map[string]sight
	seen   []glimpsed // all that was asked about
	linked bool       // one of them was a link
}

// sight is what a path leads to.
type sight struct {
	real string   // the path without links; where it cannot be followed, the path itself
	id   identity // zero: it cannot be looked at
}

func newGlance() *glance { return &glance{sights: map[string]sight{}} }

// look returns what a clean path leads to, by way of the directory above it.
func (g *glance) look(path string) sight {
	s, known := g.sights[path]
	if known {
		return s
	}
	s.real = path
	if up := filepath.Dir(path); up == path {
		s.id, _ = g.glimpse(path)
	} else if above := g.look(up); above.id != (identity{}) {
		s = g.follow(above, path)
	}
	g.sights[path] = s
	return s
}

// follow returns what a path leads to whose directory was looked at.
func (g *glance) follow(above sight, path string) sight {
	at := filepath.Join(above.real, filepath.Base(path))
	id, link := g.glimpse(at)
	if !link {
		if id == (identity{}) {
			at = path
		}
		return sight{at, id}
	}
	s := sight{path, identityOf(at)}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		s.real = real
	}
	return s
}

func (g *glance) glimpse(path string) (id identity, link bool) {
	id, link = glimpse(path)
	g.seen, g.linked = append(g.seen, glimpsed{path, id}), g.linked || link
	return id, link
}

// touches reports whether one directory contains the other, or they are one.
func (g *glance) touches(a, b string) bool { return g.within(b, a) || g.within(a, b) }

// within reports whether dir is top or lies in it, by name and by what the names stand for: links, bind mounts and
// file systems that ignore case give one directory several names.
func (g *glance) within(top, dir string) bool {
	if subpath.Within(top, dir) {
		return true
	}
	want := g.look(filepath.Clean(top)).id
	if want == (identity{}) {
		return false
	}
	for dir = g.look(filepath.Clean(dir)).real; ; dir = filepath.Dir(dir) {
		if g.look(dir).id == want {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
