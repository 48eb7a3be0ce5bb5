package config

import (
	"net"
	"strconv"
)

// DoorPorts lists the ports of the doors, whether or not they are open now.
func (c Config) DoorPorts() []int {
	var ports []int
	for _, listen := range []string{c.Remote.Listen, c.Console.Listen, c.Console.HTTPSListen, c.Console.PlainListen} {
		_, port, err := net.SplitHostPort(listen)
		if n, bad := strconv.Atoi(port); err == nil && bad == nil && n > 0 {
			ports = append(ports, n)
		}
	}
	return ports
}
