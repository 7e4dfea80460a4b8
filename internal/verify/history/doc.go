// Package history records what clients did and saw, and checks whether a linearizable store could have behaved so.
//
// An [Op] is one finished operation with the times between which it happened. [Check] splits a history by key and asks
// porcupine for an order of the operations that explains every result, versions included. An operation whose outcome
// the client could not learn may have taken effect at any time after its call, or never.
package history
