// Package wire is what both ends of the protocol share: the JSON codec between
// words and messages, the table of error codes, the access option of a method,
// the signed intent in a header, and the few shapes that are nobody's word.
//
// Promises: a conversion loses nothing or fails; a message that holds a field this build does not know is refused,
// because a signature could not cover it; what an intent signs is exactly the populated fields of the request.
//
// The package opens no connection and decides nothing.
package wire
