// Loads again and again while somebody looks. A load never overlaps itself: a new one aborts the one before.

const SLOWEST = 30_000;

export class Poller {
	#load;
	#every;
	#timer = 0;
	#running = null;
	#failures = 0; // since the last success
	#paused = false;

	/** `load(signal)` resolves to whether it succeeded; `every()` is the time between two loads, in milliseconds. */
	constructor(load, every) {
		this.#load = load;
		this.#every = every;
		document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(this.#timer) : this.#isIdle || this.now()));
	}

	/** Nothing is to be loaded by itself. What has failed is tried again, paused or not. */
	get #isIdle() {
		return this.#paused && this.#failures === 0;
	}

	/** While paused, only `now` loads. */
	set paused(value) {
		const resumed = this.#paused && !value;
		this.#paused = value;
		if (this.#isIdle) clearTimeout(this.#timer);
		else if (resumed) this.now();
	}

	/** Loads now, paused or not. */
	async now() {
		clearTimeout(this.#timer);
		this.#running?.abort();
		const controller = new AbortController();
		this.#running = controller;
		const succeeded = await this.#load(controller.signal);
		if (this.#running !== controller) return;
		this.#running = null;
		this.#failures = succeeded ? 0 : this.#failures + 1;
		if (this.#isIdle || document.hidden) return;
		this.#timer = setTimeout(() => this.now(), Math.min(this.#every() * 2 ** Math.max(this.#failures - 1, 0), Math.max(SLOWEST, this.#every())));
	}
}
