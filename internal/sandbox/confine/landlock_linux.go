package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/local"
	"palyra/internal/subpath"
)

// landlockRule is a row of the table: what every run may do with a path of the system.
type landlockRule struct {
	access uint64
	paths  []string
}

// system lists the paths that programs need in order to work. /etc is a list of files and not the
// directory, because that holds shadow, ssh keys and sudo's rules; /proc is a list because the
// directory shows the processes of others.
var system = []landlockRule{
	{cells.ToRun, strings.Fields(`/usr /bin /sbin /lib /lib64 /lib32 /libx32 /opt`)},
	{cells.ToList, strings.Fields(`
		/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.preload
		/etc/passwd /etc/group /etc/nsswitch.conf /etc/hosts /etc/resolv.conf /etc/host.conf
		/etc/services /etc/protocols /etc/localtime /etc/timezone /etc/os-release /etc/debian_version
		/etc/lsb-release /etc/redhat-release /etc/alpine-release /etc/SuSE-release /etc/arch-release
		/etc/ssl/certs /etc/ssl/openssl.cnf /etc/ssl/cert.pem /etc/pki/tls/certs /etc/pki/ca-trust/extracted /etc/pki/tls/openssl.cnf
		/etc/ca-certificates  /etc/crypto-policies
		/etc/alternatives /etc/mime.types /etc/inputrc /etc/terminfo /etc/gitconfig /etc/gitattributes
		/etc/bash.bashrc /etc/bashrc /etc/default/locale /etc/locale.conf /etc/locale.alias
		/etc/python3 /etc/python3.9 /etc/python3.10 /etc/python3.11 /etc/python3.12 /etc/python3.13 /etc/python3.14
		/etc/perl /etc/java /etc/java-8-openjdk /etc/java-11-openjdk /etc/java-17-openjdk /etc/java-21-openjdk /etc/java-25-openjdk
		/etc/fonts
	`)},
	{cells.ToList, strings.Fields(`
		/proc/cpuinfo /proc/meminfo /proc/stat /proc/uptime /proc/loadavg /proc/version /proc/filesystems /proc/self
		/proc/sys/kernel/osrelease /proc/sys/kernel/ostype /proc/sys/kernel/hostname /proc/sys/kernel/pid_max /proc/sys/kernel/random
		/proc/sys/kernel/ngroups_max /proc/sys/kernel/cap_last_cap
		/proc/sys/vm/overcommit_memory /proc/sys/fs/pipe-max-size
		/sys/devices/system/cpu /sys/devices/system/node /sys/kernel/mm/transparent_hugepage/enabled
		/sys/kernel/mm/transparent_hugepage/hpage_pmd_size /sys/kernel/mm/hugepages
	`)},
	{cells.ToWrite, strings.Fields(`/dev/null /dev/zero /dev/full /dev/random /dev/urandom`)},
}

// ownProcess is the program's own and not the daemon's: the launcher adds it.
const ownProcess = cell.OwnProcess

// rules returns what every run may do with paths of the system.
func (b *Driver) rules() []cell.Rule { return systemRules(system, b.local.Hidden(), b.fleet.Host.ABI) }

// systemRules makes rules from the table: for existing paths, without those below a rule that gives the same or
// more, and without hidden ones. A path that appears later is visible only in a directory with nothing hidden.
func systemRules(table []landlockRule, hidden []string, abi int) (out []cell.Rule) {
	for _, g := range table {
		for _, p := range g.paths {
			real, err := filepath.EvalSymlinks(p)
			if err != nil {
				continue
			}
			if p == ownProcess {
				real = ownProcess
			}
			for _, part := range local.Rest(real, hidden) {
				if covered(out, part, g.access&cells.Handled(abi)) {
					continue
				}
				if r, err := rule(part, g.access, abi); err == nil {
					r.Optional = true
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// identity identifies the file at a path.
type identity struct{ dev, ino uint64 }

// identities looks up the paths of rules. A rule holds for the file that was there when it was
// made, and files in /etc get replaced.
func identities(rules []cell.Rule) []identity {
	out := make([]identity, 0, len(rules))
	for _, r := range rules {
		var st unix.Stat_t
		if !strings.HasPrefix(r.Path, "/proc/") && unix.Stat(r.Path, &st) == nil {
			out = append(out, identity{st.Dev, st.Ino})
		} else {
			out = append(out, identity{})
		}
	}
	return out
}

// covered reports whether some rule already gives access below path.
func covered(rules []cell.Rule, path string, access uint64) bool {
	for _, r := range rules {
		if access&^r.Access == 0 && subpath.Within(r.Path, path) {
			return true
		}
	}
	return false
}

// rule gives access to a path that must exist.
func rule(path string, access uint64, abi int) (cell.Rule, error) {
	st, err := os.Stat(path)
	if err != nil {
		return cell.Rule{}, err
	}
	access &= cells.Handled(abi)
	if !st.IsDir() {
		access &= cells.OfFiles
	}
	return cell.Rule{Path: path, Access: access}, nil
}

// landlock is the ruleset of a job. It begins with base, which a launcher may have made ahead, or
// ends with it if the rules made ahead must not be used.
func landlock(j sandbox.Job, base []cell.Rule, abi int, anew bool) (cell.Landlock, error) {
	l := cells.Masks(abi)
	l.Rules = slices.Clone(base)
	own, err := ownGrants(j)
	if err != nil {
		return cell.Landlock{}, err
	}
	for _, g := range own {
		for _, p := range g.paths {
			if covered(l.Rules, p, g.access&l.FS) {
				continue
			}
			r, err := rule(p, g.access, abi)
			if err != nil {
				return cell.Landlock{}, err
			}
			r.Plain = p == j.Workspace // a run beside this one may own the directories above it
			l.Rules = append(l.Rules, r)
		}
	}
	if anew {
		l.Rules = slices.Concat(l.Rules[len(base):], l.Rules[:len(base)])
	}
	return l, nil
}

// ownGrants returns what a job may do beyond the system's rules.
func ownGrants(j sandbox.Job) ([]landlockRule, error) {
	out := []landlockRule{
		{cells.ToWork, []string{j.Workspace, filepath.Join(j.Private, "home"), filepath.Join(j.Private, "tmp")}},
		{cells.ToRun, []string{filepath.Join(j.Private, "exe")}},
	}
	if j.Sealed == nil {
		out = append(out, landlockRule{cells.ToRun & cells.OfFiles, []string{j.Path}})
	}
	if j.Terminal {
		name, err := os.Readlink(cells.Descriptor(j.Stdin))
		if err != nil {
			return nil, err
		}
		out = append(out, landlockRule{cells.ToTalk, []string{"/dev/tty", name}})
	}
	return out, nil
}
