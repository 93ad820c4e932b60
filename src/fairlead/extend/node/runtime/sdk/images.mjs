// The size of images, from their first bytes.

const LIMITS = { maxWidth: 2000, maxHeight: 2000, maxBytes: 4.5 * 1024 * 1024 };

const readers = {
	"image/png": (data) => (data.length >= 24 ? [data.readUInt32BE(16), data.readUInt32BE(20)] : undefined),
	"image/gif": (data) => (data.length >= 10 ? [data.readUInt16LE(6), data.readUInt16LE(8)] : undefined),
	"image/webp": webp,
	"image/jpeg": jpeg,
};

function webp(data) {
	const kind = data.subarray(12, 16).toString("latin1");
	if (data.length < 30) return undefined;
	if (kind === "VP8X") return [1 + data.readUIntLE(24, 3), 1 + data.readUIntLE(27, 3)];
	if (kind === "VP8 ") return [data.readUInt16LE(26) & 0x3fff, data.readUInt16LE(28) & 0x3fff];
	if (kind !== "VP8L") return undefined;
	const bits = data.readUInt32LE(21);
	return [1 + (bits & 0x3fff), 1 + ((bits >> 14) & 0x3fff)];
}

function jpeg(data) {
	for (let at = 2; at + 9 < data.length; ) {
		if (data[at] !== 0xff) return undefined;
		const marker = data[at + 1];
		const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
		if (isFrame) return [data.readUInt16BE(at + 7), data.readUInt16BE(at + 5)];
		at += 2 + data.readUInt16BE(at + 2);
	}
	return undefined;
}

/**
 * Make an image fit the limits of providers. An image that fits is returned as it is. For one that does not, there is nothing here
 * that could shrink it, and the result is null, as in a pi whose image library cannot be loaded.
 */
export async function resizeImage(inputBytes, mimeType, options = {}) {
	const { maxWidth, maxHeight, maxBytes } = { ...LIMITS, ...options };
	if (typeof inputBytes !== "string" && !ArrayBuffer.isView(inputBytes) && !(inputBytes instanceof ArrayBuffer)) return null;
	const data = Buffer.from(inputBytes);
	const size = readers[mimeType]?.(data);
	if (!size || Math.ceil(data.length / 3) * 4 >= maxBytes || size[0] > maxWidth || size[1] > maxHeight) return null;
	const [width, height] = size;
	return { data: data.toString("base64"), mimeType, originalWidth: width, originalHeight: height, width, height, wasResized: false };
}

export function formatDimensionNote({ wasResized, originalWidth, originalHeight, width, height }) {
	if (!wasResized) return undefined;
	const scale = (originalWidth / width).toFixed(2);
	return `[Image: original ${originalWidth}x${originalHeight}, displayed at ${width}x${height}. Multiply coordinates by ${scale} to map to original image.]`;
}
