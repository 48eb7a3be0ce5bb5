package bwrap

import (
	"fmt"

	"palyra/internal/cell"
)

// generated adds the files of /etc that describe the run's user and host. They are the room's own:
// the host's would name its users and services that the room does not reach.
func (a *arguments) generated(r Room) error {
	uid, gid := r.Inside()
	passwd := fmt.Sprintf("root:x:0:0:root:/nonexistent:/bin/sh\nagent:x:%d:%d:agent:%s:/bin/sh\n", uid, gid, cell.RoomHome)
	group := fmt.Sprintf("root:x:0:\nagent:x:%d:\n", gid)
	if uid != Nobody {
		passwd += fmt.Sprintf("nobody:x:%d:%d:nobody:/nonexistent:/bin/false\n", Nobody, Nobody)
	}
	if gid != Nobody {
		group += fmt.Sprintf("nogroup:x:%d:\n", Nobody)
	}
	for _, f := range [][2]string{
		{"/etc/passwd", passwd},
		{"/etc/group", group},
		{"/etc/nsswitch.conf", roomNames},
		{"/etc/hosts", roomHosts},
		{"/etc/hostname", Hostname + "\n"},
		{"/etc/resolv.conf", roomResolv},
	} {
		if err := a.file(f[0], f[1]); err != nil {
			return err
		}
	}
	a.add("--symlink", "/proc/self/mounts", "/etc/mtab")
	return nil
}

// Nobody is the owner that files of all other users seem to have.
const Nobody = 65534

const (
	roomNames = `passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
`
	roomHosts = `127.0.0.1 localhost ` + Hostname + `
::1 localhost ip6-localhost ip6-loopback
`
	roomResolv = `nameserver 198.18.0.1
options timeout:5 attempts:2
`
)
