// Package sessionbus connects to the bus of a desktop session.
//
// Promises. Only a socket that the environment names is opened, and only where whoever listens there is the program's own
// user: nobody else's bus is told anything. Connecting, and every write afterwards, ends with the context.
//
// What is said over the bus is for others.
package sessionbus
