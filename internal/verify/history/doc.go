// Package history records the operations of clients and checks them for linearizability.
//
// An [Op] is one finished operation with its start and end times. [Check] splits a history by key
// and uses porcupine to find an order of the operations that explains every result, including
// versions. An operation of unknown outcome may take effect at any time after its call, or never.
package history
