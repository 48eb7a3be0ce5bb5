package seatbelt

import (
	"iter"
	"maps"
)

// The parts of the system that every run may see. Paths are real ones: /etc, /tmp and /var are links to /private.
// /System is not there as a whole: users' files can be reached below /System/Volumes.

// programs are the directories of programs and the files that they load.
var programs = []string{
	"/bin", "/sbin", "/usr", "/opt/homebrew", "/opt/local", "/System/Library", "/System/Cryptexes", "/System/Volumes/Preboot/Cryptexes",
	"/System/iOSSupport", "/Library/Apple", "/Library/Developer", "/Library/Frameworks", "/Library/Java", "/Applications/Xcode.app",
}

// systemTrees may only be read.
var systemTrees = []string{
	"/private/etc/ssl", "/private/etc/paths.d", "/private/etc/manpaths.d", "/private/var/db/dyld", "/private/var/db/timezone",
	"/private/var/select",
}

var systemFiles = []string{
	"/etc", "/tmp", "/var", "/private/etc/passwd", "/private/etc/group", "/private/etc/hosts", "/private/etc/services",
	"/private/etc/protocols",
	"/private/etc/networks", "/private/etc/resolv.conf", "/private/etc/localtime", "/private/etc/shells", "/private/etc/paths",
	"/private/etc/manpaths",
	"/private/etc/profile", "/private/etc/bashrc", "/private/etc/zshenv", "/private/etc/zshrc", "/private/etc/zprofile",
	"/private/etc/gitconfig",
	"/private/var/db/xcode_select_link", "/Library/Preferences/.GlobalPreferences.plist",
}

// foreignData is what package managers keep beside their programs, for servers and for themselves.
var foreignData = []string{"/opt/homebrew/var", "/opt/homebrew/etc", "/usr/local/var", "/usr/local/etc", "/opt/local/var", "/opt/local/etc"}

var devices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/fd", "/dev/dtracehelper"}

// machServices are the services that a run may use: user names, time, logging. The keychain, the
// pasteboard, launching of programs, the resolver, and the service that checks certificates are not
// among them: the last fetches from addresses that a certificate names and so is a way out.
var machServices = []string{
	"com.apple.bsd.dirhelper", "com.apple.logd", "com.apple.system.logger", "com.apple.system.notification_center",
	"com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
}

func mapKeys(m map[string]string) iter.Seq[string] { return maps.Keys(m) }
