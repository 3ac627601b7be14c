/* os/closer.h -- threads that close what came from others.
 *
 * Note [Descriptors of others]
 * The last close of a descriptor may take as long as whoever made it likes. A TCP socket with SO_LINGER waits until its
 * peer has read everything, a file of FUSE until its server has answered. The end of a connection closes the
 * descriptors in packets that nobody has read, and recvmsg() those for which there is no room. So a program that serves
 * everybody with one thread could be frozen by anyone who reaches its socket, whether they may join or not. Therefore:
 *   - That thread closes no descriptor that came from others, and no connection, but gives them to closers: threads
 *     that do nothing else. It may close what it knows to be a memory file, for which the kernel asks nobody.
 *   - A closer hurries: a signal each millisecond ends what waits of it, as a wait for a peer does. So many descriptors
 *     that wait are closed soon.
 *   - Whoever receives packets has room for as many descriptors as a packet can have, and hurries, too, where the
 *     kernel may find no number for them or a security module may refuse them. To hurry takes two system calls, and
 *     as long as half of a request.
 *   - What no signal ends (FUSE) keeps its closer. If nothing was closed for a while though something waits, another
 *     closer is started, up to a bound.
 *   - A descriptor that came from others is looked at by os/stat.h, or asked for its seals first: only files in memory
 *     have some.
 * In a program that has not started closers, all of this closes at once and hurries nobody.
 */
#ifndef SHMT_OS_CLOSER_H
#define SHMT_OS_CLOSER_H

#include <stdbool.h>

/* Start a closer, for a program that does not fork any more; it takes over SIGRTMIN. The calling thread is the one that
 * gives from then on, and that calls shmt__closers_check. If no thread can be started it closes itself, and hurries. */
void shmt__closers_start(void);
/* Have fd closed. Consumes it; negative is fine. Waits for nobody. */
void shmt__closers_close(int fd);
/* Call it about twice a second: it starts another closer if those there are have taken nothing since the last call,
 * though something waits. */
void shmt__closers_check(void);
/* true: from now on a signal each millisecond ends what the calling thread waits in. false: ends that. errno stays.
 * Does nothing in a thread that neither gives nor closes. */
void shmt__closers_hurry(bool on);
/* Hurry to receive a packet of so many descriptors at most, if the kernel may close some of them. Returns whether the
 * thread hurries now. */
bool shmt__closers_hurry_to_receive(int most);

#endif
