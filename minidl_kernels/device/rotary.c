/* Rotary position embedding: pairs of features turned by the angle of their position. */

/* y = (x1 cos - x2 sin, x2 cos + x1 sin); element i of the layout is a pair, pa in x, pb in y, pc
 * in cos and sin; its second half lies x_step, y_step further. Backwards: sign -1 */
KERNEL(rotary, 256, IN(float, x), IN(float, cosine), IN(float, sine), OUT(float, y),
       VAL(int, x_step), VAL(int, y_step), VAL(float, sign), VAL(Layout, at))
{
    int i = BLOCK_X * THREADS + THREAD;
    if (i < at.size) {
        PLACES(i, at)
        float first = x[pa], second = x[pa + x_step], c = cosine[pc], s = sign * sine[pc];
        y[pb] = first * c - second * s;
        y[pb + y_step] = second * c + first * s;
    }
}
